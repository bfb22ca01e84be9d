package main

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// shard is a part of all scenarios, by the hash of their names: the same split on
// every machine, and none of it depends on the others.
type shard struct{ i, n uint64 }

func parseShard(text string) (shard, error) {
	if text == "" {
		return shard{1, 1}, nil
	}
	left, right, ok := strings.Cut(text, "/")
	i, err1 := strconv.ParseUint(left, 10, 32)
	n, err2 := strconv.ParseUint(right, 10, 32)
	if !ok || err1 != nil || err2 != nil || i < 1 || i > n {
		return shard{}, fmt.Errorf("shard %q: want I/N with I from 1 to N, as in 2/8", text)
	}
	return shard{i, n}, nil
}

func (s shard) has(name string) bool {
	if s.n < 2 {
		return true
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()%s.n == s.i-1
}
