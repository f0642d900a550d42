package document

import "strings"

// Nearest returns the candidate that a person who wrote word most likely meant,
// or "" where none is near. Of equally near ones it is the first.
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", len(word)/3+2
	for _, candidate := range candidates {
		d := distance(strings.ToLower(word), strings.ToLower(candidate), bestDistance)
		if len(word) > 2 && strings.HasPrefix(candidate, word) {
			d = 1
		}
		if d < bestDistance && d < len(candidate) {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is the number of letters to change, add, drop or swap with their
// neighbour to make b of a (optimal string alignment), or limit where it is
// that many or more.
func distance(from, to string, limit int) int {
	if len(from)-len(to) >= limit || len(to)-len(from) >= limit {
		return limit
	}
	before, last, row := make([]int, len(to)+1), make([]int, len(to)+1), make([]int, len(to)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(from); i++ {
		row[0] = i
		for j := 1; j <= len(to); j++ {
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ(from[i-1], to[j-1]))
			if i > 1 && j > 1 && from[i-1] == to[j-2] && from[i-2] == to[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(to)], limit)
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
