package tools

import "github.com/fsbench/fsbench/spec"

// read answers with the bytes and the version of a regular file.
func (k *call) read() spec.Outcome {
	place, err := k.walk(k.Path, false, true)
	if err != nil {
		return k.failed(blocked(err))
	}
	defer place.Close()
	s, err := k.load(place)
	if err != nil {
		return k.failed(err)
	}
	defer s.close()
	return spec.Outcome{
		Status: spec.StatusOK, Content: s.content, Version: k.t.Steps.Version(s.info.ID, s.content),
	}
}
