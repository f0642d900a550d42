// Package upgrades measures what an upgrade of Plinth costs, and the way back, between two different commits: their
// charts and their images, on real machines (kubelet, containerd and kube-proxy), by helm upgrade:
//
//	go test -C test -count=1 -run '^$' -bench . -benchtime 1x -timeout 1h ./bench/upgrades -args -from=2051dffb
//	go test -C test ... ./bench/upgrades -args -from=2051dffb -proxy-mode=iptables -router=bird
//
// The commit of -from is checked out into a folder of its own, and its images are built there. `make real-machines` before
// it makes what the machines need.
package upgrades
