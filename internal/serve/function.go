package serve

import (
	"context"
	"io"
	"log/slog"

	"github.com/fsbench/fsbench/sut"
)

// Function returns a server as a function over a pair of pipes: the same subject as
// behind a process, over whatever port and policies the session runs in. tamper may
// stand in front of its output, and may be nil.
func Function(d sut.Driver, env sut.Env, tamper func(io.Writer) io.Writer) func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
	return func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
		if tamper != nil {
			out = tamper(out)
		}
		return Serve(ctx, in, out, Options{Driver: d, FS: env.FS, Policies: env.Policies, Log: Warnings(errs)})
	}
}

// Warnings is what a server writes to standard error: lines that a runner reads.
func Warnings(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
