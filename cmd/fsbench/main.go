// Command fsbench judges agents' file tools. Each verb is a file of this package;
// docs/ARCHITECTURE.md says what stands behind them.
package main

import (
	"os"

	"github.com/fsbench/fsbench/sandbox/disk"
	"github.com/fsbench/fsbench/sandbox/jail"
)

func main() {
	// A process of this program that was started as a helper never gets further.
	jail.Main()
	disk.Main()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
