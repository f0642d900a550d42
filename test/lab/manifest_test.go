package lab

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/components"
)

func TestAnAgentAsksForTheCapabilityToWriteRoutesAlone(t *testing.T) {
	granted, err := rights(agentPod(t))
	if err != nil || !slices.Equal(granted.Capabilities, []string{"NET_ADMIN"}) {
		t.Errorf("%+v, %v", granted, err)
	}
}

func TestAManifestThatAsksForMoreThanTheLabsAgentsHaveIsRefused(t *testing.T) {
	yes, no := true, false
	for name, loosen := range map[string]func(*corev1.PodSpec, *corev1.SecurityContext){
		"privileged":             func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.Privileged = &yes },
		"escalation":             func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = nil },
		"a root that is written": func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.ReadOnlyRootFilesystem = &no },
		"nothing dropped":        func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.Capabilities.Drop = nil },
		"no profile":             func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.SecurityContext = nil },
		"a profile that is none": func(p *corev1.PodSpec, _ *corev1.SecurityContext) {
			p.SecurityContext.SeccompProfile.Type = "Unconfined"
		},
		"the host's processes": func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.HostPID = true },
		"another user":         func(_ *corev1.PodSpec, c *corev1.SecurityContext) { c.RunAsUser = nil },
		"a profile of its own": func(_ *corev1.PodSpec, c *corev1.SecurityContext) {
			c.SeccompProfile = &corev1.SeccompProfile{Type: "Unconfined"}
		},
		"another folder":        func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.Volumes = append(p.Volumes, p.Volumes[0]) },
		"an ID that is written": func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.Containers[0].VolumeMounts[1].ReadOnly = false },
		"another file":          func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.Volumes[1].HostPath.Path = "/etc/shadow" },
		"a network of its own":  func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.HostNetwork = false },
		"no security context":   func(p *corev1.PodSpec, _ *corev1.SecurityContext) { p.Containers[0].SecurityContext = nil },
	} {
		t.Run(name, func(t *testing.T) {
			pod := agentPod(t)
			loosen(&pod, pod.Containers[0].SecurityContext)
			if _, err := rights(pod); err == nil || !strings.Contains(err.Error(), "deploy/base") {
				t.Errorf("was taken: %v", err)
			}
		})
	}
}

func agentPod(t *testing.T) corev1.PodSpec {
	t.Helper()
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	set, err := agentManifest(root)
	if err != nil {
		t.Fatal(err)
	}
	return set.Spec.Template.Spec
}
