package model

import (
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// seamOf returns the seam at which a handler was asked.
func seamOf(c trace.Consult) spec.Seam {
	if c.Delete != nil {
		return spec.SeamDelete
	}
	return spec.SeamWrite
}

// consulted reports whether handlers of a seam were asked in x, and whether one
// said yes.
func consulted(x *Exchange, seam spec.Seam) (asked, accepted bool) {
	for _, c := range x.Consults {
		if seamOf(c) == seam {
			asked = true
			accepted = accepted || c.Answer == trace.Landed
		}
	}
	return asked, accepted
}

// acted reports whether a handler changed the tree in x.
func acted(x *Exchange) bool {
	for _, c := range x.Consults {
		if c.Acted {
			return true
		}
	}
	return false
}

// brokered returns the World after what the handlers of a seam did to it, which
// the bench knows: they are its own.
func brokered(w spec.World, x *Exchange, seam spec.Seam) spec.World {
	for _, c := range x.Consults {
		if !c.Acted || seamOf(c) != seam {
			continue
		}
		if c.Delete != nil {
			if p, ok := worldPath(x.Header, c.Delete.Dst); ok {
				w = tree{w}.without(p)
			}
			continue
		}
		content := c.Write.Content
		if i := c.Handler - 1; i < len(x.Header.Brokers) && x.Header.Brokers[i].Kind == spec.Short {
			content = content[:len(content)/2]
		}
		if p, ok := worldPath(x.Header, c.Write.Dst); ok {
			w = tree{w}.edited(spec.Edit{Op: spec.EditWrite, Path: p, Content: content})
		}
	}
	return w
}

// worldPath returns the path in the World of an absolute destination below the
// root.
func worldPath(h *trace.Header, dst string) (string, bool) {
	rest, ok := below(h.Root, dst)
	return spec.Workspace + "/" + rest, ok
}
