package inventory

import (
	"fmt"
	"strconv"
	"strings"
)

// Limit is the number of machines, or VIPs, of all, that one change may take away. Its zero value is
// none.
type Limit struct {
	kind limitKind
	n    int
}

type limitKind uint8

const (
	limitNumber limitKind = iota
	limitPercent
	limitOneOrPercent // the larger of 1 and a percentage: a default, which nobody can write
)

// LimitNumber is a limit of n.
func LimitNumber(n int) Limit { return Limit{limitNumber, n} }

// LimitPercent is a limit of p percent of all.
func LimitPercent(p int) Limit { return Limit{limitPercent, p} }

// LimitOneOrPercent is the larger of 1 and p percent of all.
func LimitOneOrPercent(p int) Limit { return Limit{limitOneOrPercent, p} }

// ParseLimit reads "3" or "5%".
func ParseLimit(text string) (Limit, error) {
	body, percent := strings.CutSuffix(text, "%")
	number, ok := ParseDigits(body, 31)
	switch {
	case !ok:
		return Limit{}, fmt.Errorf("%q is neither a number nor a percentage", text)
	case percent && number > 100:
		return Limit{}, fmt.Errorf("%q is more than all", text)
	case percent:
		return LimitPercent(int(number)), nil
	}
	return LimitNumber(int(number)), nil
}

// Of returns the limit as a number, of so many in all. A part of a machine
// counts as a whole one.
func (l Limit) Of(total int) int {
	percent := (total*l.n + 99) / 100
	switch l.kind {
	case limitPercent:
		return percent
	case limitOneOrPercent:
		return max(1, percent)
	default:
		return l.n
	}
}

// String prints the limit as it is written in an inventory.
func (l Limit) String() string {
	return strconv.Itoa(l.n) + limitUnits[l.kind]
}

// limitUnits are what follows the number of a limit.
var limitUnits = [...]string{limitNumber: "", limitPercent: "%", limitOneOrPercent: "%, at least 1"}
