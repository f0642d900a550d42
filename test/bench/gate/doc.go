// Package gate measures what it costs that an agent announces a VIP once its own kube-proxy
// has the rules for it. Agents with and without that gate take turns in one run, on a lab of
// a real control plane, kube-proxy in both modes and BIRD as the router:
//
//	go test -C test -count=1 -run '^$' -bench . -benchtime 1x -timeout 1h ./bench/gate
//
// Contender "gate" is the agent as it is shipped, "without" the same with --proxy-health="",
// which asks nobody. With -before and the file of an older agent that takes part as "before":
//
//	git worktree add /tmp/older fa8b7f5^ && go build -C /tmp/older -o /tmp/plinth-agent-older ./cmd/node-agent
//	go test -C test ... ./bench/gate -args -before=/tmp/plinth-agent-older
package gate
