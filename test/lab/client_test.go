package lab

import "testing"

func TestAPortComesAgainAfterAllOthers(t *testing.T) {
	var p ports
	const all = lastPort - firstPort + 1
	seen := map[int]bool{}
	for range all {
		port := p.take("client", "203.0.113.1:80")
		if port < firstPort || port > lastPort || seen[port] {
			t.Fatalf("port %d after %d others", port, len(seen))
		}
		seen[port] = true
	}
	if again := p.take("client", "203.0.113.1:80"); again != firstPort {
		t.Errorf("after all others: %d, want %d", again, firstPort)
	}
	if other := p.take("client", "203.0.113.2:80"); other != firstPort {
		t.Errorf("to another server: %d, want %d", other, firstPort)
	}
}
