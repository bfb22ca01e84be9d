// Command fsbench judges agents' file tools. Each verb is a file of this package;
// docs/ARCHITECTURE.md says what stands behind them.
package main

import (
	"os"
	"runtime/debug"
)

func main() {
	if os.Getenv("GOGC") == "" {
		// The heap is a few megabytes that live for one scenario: at the default every
		// fourth moment would go to collecting them.
		debug.SetGCPercent(400)
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
