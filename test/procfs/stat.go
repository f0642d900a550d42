package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Stat reads when a process was born, in clock ticks since boot, and its state letter. Its ID and its birth together
// are never given to another process.
func Stat(pid int) (born uint64, state string, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", err
	}
	// The second field is the name in parentheses and may hold anything.
	_, rest, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
	fields := strings.Fields(rest) // from the third on
	if len(fields) < 20 {
		return 0, "", fmt.Errorf("/proc/%d/stat: %q", pid, data)
	}
	born, err = strconv.ParseUint(fields[19], 10, 64)
	return born, fields[0], err
}
