package reports

import (
	"fmt"
	"time"

	"github.com/fsbench/fsbench/spec"
)

// Waiver excuses one rule for one subject until a date.
type Waiver struct {
	Subject string      `json:"subject" yaml:"subject"`
	Rule    spec.RuleID `json:"rule" yaml:"rule"`
	Reason  string      `json:"reason" yaml:"reason"`
	Issue   string      `json:"issue" yaml:"issue"`     // address of the subject's own issue
	Expires string      `json:"expires" yaml:"expires"` // a date, as in 2027-01-31
}

// CheckWaivers reports the first waiver that excuses nothing: of no rule, without
// a reason, or past its date. Today is a date in the same form.
func CheckWaivers(ws []Waiver, today string) error {
	for i, w := range ws {
		_, known := spec.RuleByID(w.Rule)
		_, dateErr := time.Parse(time.DateOnly, w.Expires)
		switch {
		case !known:
			return fmt.Errorf("waiver %d: there is no rule %q; see fsbench rules", i+1, w.Rule)
		case w.Subject == "" || w.Reason == "" || w.Issue == "":
			return fmt.Errorf("waiver %d of %s: want subject, reason and issue", i+1, w.Rule)
		case dateErr != nil:
			return fmt.Errorf("waiver %d of %s: expires %q, want a date as in 2027-01-31", i+1, w.Rule, w.Expires)
		case w.Expires < today:
			return fmt.Errorf("waiver %d of %s: it expired on %s; mend the rule or renew the waiver", i+1, w.Rule, w.Expires)
		}
	}
	return nil
}

func waiverFor(ws []Waiver, subject string, rule spec.RuleID) *Waiver {
	for _, w := range ws {
		if w.Subject == subject && w.Rule == rule {
			return &w
		}
	}
	return nil
}
