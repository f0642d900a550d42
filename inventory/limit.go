package inventory

import (
	"fmt"
	"strconv"
	"strings"
)

// Limit is how many machines one change may drop or retire. Its zero value is
// the default: the larger of 1 and 5%.
type Limit struct {
	kind limitKind
	n    int
}

type limitKind uint8

const (
	limitDefault limitKind = iota
	limitNumber
	limitPercent
)

// LimitNumber is a limit of n machines.
func LimitNumber(n int) Limit { return Limit{limitNumber, n} }

// LimitPercent is a limit of p percent of the machines.
func LimitPercent(p int) Limit { return Limit{limitPercent, p} }

// ParseLimit reads "3" or "5%".
func ParseLimit(s string) (Limit, error) {
	body, percent := strings.CutSuffix(s, "%")
	n, ok := digits(body, 31)
	switch {
	case !ok:
		return Limit{}, fmt.Errorf("%q is neither a number nor a percentage", s)
	case percent && n > 100:
		return Limit{}, fmt.Errorf("%q is more than all", s)
	case percent:
		return LimitPercent(int(n)), nil
	}
	return LimitNumber(int(n)), nil
}

// Of returns the limit in machines, of so many in all. A part of a machine
// counts as a whole one.
func (l Limit) Of(total int) int {
	switch l.kind {
	case limitNumber:
		return l.n
	case limitPercent:
		return (total*l.n + 99) / 100
	}
	return max(1, LimitPercent(5).Of(total))
}

// Given reports whether the limit is somebody's word and not the default.
func (l Limit) Given() bool { return l.kind != limitDefault }

// String prints the limit as it is written in an inventory.
func (l Limit) String() string {
	switch l.kind {
	case limitNumber:
		return strconv.Itoa(l.n)
	case limitPercent:
		return strconv.Itoa(l.n) + "%"
	}
	return "5%, at least 1"
}
