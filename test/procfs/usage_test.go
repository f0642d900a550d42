package procfs

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestAProcessUsesWhatItUses(t *testing.T) {
	before, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const more = 64 // MiB
	block, sum := make([]byte, more<<20), 0
	for begun := time.Now(); time.Since(begun) < 50*time.Millisecond; {
		for i := 0; i < len(block); i += 4096 {
			block[i]++
			sum += int(block[i])
		}
	}
	after, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after.CPU-before.CPU < 10*time.Millisecond || after.Memory-before.Memory < more/2 || after.Private-before.Private < more/2 || after.Private > after.Memory {
		t.Errorf("before %+v, after 50 ms with %d MiB more %+v (%d)", before, more, after, sum)
	}
}

func TestThePeakOutlivesTheMemoryUntilItIsReset(t *testing.T) {
	const more = 64 // MiB
	before, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	block, err := syscall.Mmap(-1, 0, more<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(block); i += 4096 {
		block[i]++
	}
	if err := syscall.Munmap(block); err != nil {
		t.Fatal(err)
	}
	peak, err := Peak(os.Getpid())
	if err != nil || peak < before.Memory+more/2 {
		t.Errorf("the peak is %.0f MiB after %.0f and %d more: %v", peak, before.Memory, more, err)
	}
	if err := ResetPeak(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if now, err := Peak(os.Getpid()); err != nil || now > peak-more/2 {
		t.Errorf("the peak is %.0f MiB after %.0f: %v", now, peak, err)
	}
}

func TestAProcessThatHasEndedIsAnError(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if u, err := Of(cmd.Process.Pid); err == nil {
		t.Errorf("it uses %+v", u)
	}
}
