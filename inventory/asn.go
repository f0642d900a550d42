package inventory

import (
	"fmt"
	"strconv"
	"strings"
)

// ASN is the number of an autonomous system (RFC 6793: four octets).
type ASN uint32

// String prints the number in asplain (RFC 5396).
func (a ASN) String() string { return strconv.FormatUint(uint64(a), 10) }

// ParseASN reads asplain ("65010") or asdot ("65010.10", RFC 5396). Zero is
// refused (RFC 7607), and so are the numbers that are never to be used: 65535
// and 4294967295 (RFC 7300), and 23456, which stands for a number that an old
// router cannot show (RFC 6793).
func ParseASN(s string) (ASN, error) {
	number, ok := asnNumber(s)
	if !ok {
		return 0, fmt.Errorf("%q is not an AS number", s)
	}
	switch number {
	case 0, 23456, 65535, 4294967295:
		return 0, fmt.Errorf("AS number %d is reserved", number)
	}
	return ASN(number), nil
}

// Public reports whether registries give the number to networks of the Internet: it is neither for private
// use (RFC 6996) nor for documentation (RFC 5398) nor reserved by IANA (65552 to 131071).
func (a ASN) Public() bool {
	switch {
	case a >= 64496 && a <= 131071, a >= 4200000000:
		return false
	}
	return a != 0
}

// asnNumber reads digits, or two groups of digits of 16 bits each.
func asnNumber(s string) (uint64, bool) {
	high, low, dotted := strings.Cut(s, ".")
	if !dotted {
		return ParseDigits(s, 32)
	}
	h, ok := ParseDigits(high, 16)
	l, ok2 := ParseDigits(low, 16)
	return h<<16 | l, ok && ok2
}

// ParseDigits reads a decimal number of at most so many bits, with no sign and no
// needless zero before it.
func ParseDigits(s string, bits int) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, bits)
	return n, err == nil && s[0] != '+' && (s[0] != '0' || len(s) == 1)
}
