//go:build !linux && !darwin

package main

// spaceOf knows nothing here: no strange program is run on this system.
func spaceOf(string) (space, error) { return space{left: leastBytes, all: leastBytes}, nil }
