package scenarios

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed corpus/*.txtar
var corpusFiles embed.FS

// Corpus returns the scenarios kept in the tree, in the order of their files.
func Corpus() ([]Scenario, error) {
	entries, err := corpusFiles.ReadDir("corpus")
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	var out []Scenario
	for _, e := range entries {
		file := path.Join("corpus", e.Name())
		data, err := corpusFiles.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("corpus: %w", err)
		}
		s, err := Parse(file, strings.TrimSuffix(e.Name(), ".txtar"), data)
		if err != nil {
			return nil, fmt.Errorf("corpus: %w", err)
		}
		out = append(out, s)
	}
	return out, nil
}
