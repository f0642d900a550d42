package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"plinth.dev/plinth/test/lab/container"
)

// agentProgram is where the image has the agent, see release/images.
const agentProgram = "/plinth-agent"

// agentManifest is the agents' DaemonSet of deploy/base.
func agentManifest(root string) (*appsv1.DaemonSet, error) {
	file, err := os.Open(filepath.Join(root, "deploy", "base", "agent.yaml"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	set := new(appsv1.DaemonSet)
	if err := yaml.NewYAMLOrJSONDecoder(file, 4096).Decode(set); err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return set, nil
}

// onLinkCapabilities are those that deploy/components/on-link adds to the agents' container.
func onLinkCapabilities(root string) (added []corev1.Capability, err error) {
	file := filepath.Join(root, "deploy", "components", "on-link", "kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var component struct {
		Patches []struct {
			Target struct{ Kind string } `json:"target"`
			Patch  string                `json:"patch"`
		} `json:"patches"`
	}
	if err := yaml.Unmarshal(text, &component); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, p := range component.Patches {
		if p.Target.Kind == "ClusterRole" { // see [Lab.GrantRights]
			continue
		}
		var operations []struct {
			Op, Path string
			Value    corev1.Capability
		}
		if err := yaml.Unmarshal([]byte(p.Patch), &operations); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, o := range operations {
			if o.Op != "add" || o.Path != "/spec/template/spec/containers/0/securityContext/capabilities/add/-" {
				return nil, fmt.Errorf("%s: the lab knows nothing of %s %s", file, o.Op, o.Path)
			}
			added = append(added, o.Value)
		}
	}
	return added, nil
}

// machineID is the file of a host by which the lab's agents know their machine.
const machineID = "/etc/machine-id"

// hasMounts reports whether a container has one folder of the host to write, its first,
// and the machine's ID to read.
func hasMounts(pod corev1.PodSpec) bool {
	if len(pod.Volumes) != 2 || pod.Volumes[0].HostPath == nil || pod.Volumes[1].HostPath == nil || len(pod.Containers[0].VolumeMounts) != 2 {
		return false
	}
	id := pod.Containers[0].VolumeMounts[1]
	return pod.Volumes[1].HostPath.Path == machineID && id.Name == pod.Volumes[1].Name && id.MountPath == machineID && id.ReadOnly
}

// rights are what a pod's only container may do. A pod that asks for more than
// capabilities, one folder of the host and its ID is none that the lab could start.
func rights(pod corev1.PodSpec) (container.Container, error) {
	if len(pod.Containers) != 1 || len(pod.InitContainers) > 0 || !hasMounts(pod) {
		return container.Container{}, fmt.Errorf("deploy/base: want one container with one folder of the host and its ID, have %+v", pod)
	}
	var added []corev1.Capability
	if c := pod.Containers[0].SecurityContext; c != nil && c.Capabilities != nil {
		added = c.Capabilities.Add
	}
	root, no, yes := int64(0), false, true
	confined := corev1.PodSpec{
		HostNetwork:     true,
		SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{SecurityContext: &corev1.SecurityContext{
			RunAsUser: &root, RunAsGroup: &root, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: added},
		}}},
	}
	asked := corev1.PodSpec{
		HostNetwork: pod.HostNetwork, HostPID: pod.HostPID, HostIPC: pod.HostIPC, SecurityContext: pod.SecurityContext,
		Containers: []corev1.Container{{SecurityContext: pod.Containers[0].SecurityContext}},
	}
	if !reflect.DeepEqual(asked, confined) {
		return container.Container{}, fmt.Errorf("deploy/base: an agent would run with rights that the lab's agents do not have: %s", asked.String())
	}
	var c container.Container
	for _, name := range added {
		c.Capabilities = append(c.Capabilities, string(name))
	}
	return c, nil
}

// agentArgs is the command line of the agent's container in a namespace.
func agentArgs(pod corev1.PodSpec, namespace string) []string {
	var args []string
	for _, a := range pod.Containers[0].Args {
		args = append(args, strings.ReplaceAll(a, "$(NAMESPACE)", namespace))
	}
	return args
}
