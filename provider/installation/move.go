package installation

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
)

// Move moves an installation from one namespace to another: the inventory in force, the addresses in quarantine,
// the outcome of the last edit, the inventory as people write it, and the Secrets that it names. It
// deletes nothing where it was, so that agents there run on until they are replaced.
//
// Each of its steps can be the last one of a process that dies: Run does what is left to do.
type Move struct {
	Client   kubernetes.Interface // with the rights of an administrator
	From, To string               // namespaces
	Patience time.Duration        // for how long it waits for the controller in From to end
	Say      func(line string)    // is told of each step that changed something
}

// Run moves the installation. It fails before it changes anything where there is none to move, or
// another one in the namespace that it would be moved to.
func (m Move) Run(ctx context.Context) error {
	from, to, err := m.look(ctx)
	if err != nil {
		return err
	}
	if err := m.check(from, to); err != nil {
		return err
	}
	if !to.established() {
		if _, err := source.Accepted(ctx, m.Client, m.From); err != nil {
			return err // before anything is changed
		}
		if err := m.park(ctx); err != nil {
			return err
		}
		if err := m.copyAll(ctx); err != nil {
			return err
		}
	}
	if err := m.mark(ctx); err != nil {
		return err
	}
	return m.unpark(ctx)
}

func (m Move) look(ctx context.Context) (from, to Installation, err error) {
	all, err := Find(ctx, m.Client, source.DefaultLease)
	if err != nil {
		return from, to, err
	}
	in := func(namespace string) Installation {
		if i := slices.IndexFunc(all, func(i Installation) bool { return i.Namespace == namespace }); i >= 0 {
			return all[i]
		}
		return Installation{Namespace: namespace}
	}
	return in(m.From), in(m.To), nil
}

// check refuses a call that would be no move, or would make one installation of two.
func (m Move) check(from, to Installation) error {
	switch begun := from.parkedFor(); {
	case m.From == m.To:
		return fmt.Errorf("the installation is in namespace %s already", m.To)
	case from.MovedTo != "" && from.MovedTo != m.To:
		return fmt.Errorf("the installation of namespace %s was moved to %s: move it from there", m.From, from.MovedTo)
	case begun != "" && begun != m.To:
		return fmt.Errorf("the installation of namespace %s is being moved to %s: end that first: %s", m.From, begun, moveCommand(m.From, begun))
	case from.Generation == "":
		return fmt.Errorf("no inventory was accepted in namespace %s: there is nothing to move", m.From)
	case to.established() && begun != m.To && from.MovedTo != m.To:
		return fmt.Errorf("an inventory was accepted in namespace %s as well: remove one of the two installations, for they cannot be made one", m.To)
	}
	return nil
}

// copyAll copies the objects of the installation, the one that puts them into force last.
func (m Move) copyAll(ctx context.Context) error {
	inv, err := source.Accepted(ctx, m.Client, m.From)
	if err != nil {
		return err
	}
	if err := m.makeNamespace(ctx); err != nil {
		return err
	}
	if err := m.copySecrets(ctx, secretsOf(inv)); err != nil {
		return err
	}
	copier, err := m.newCopier(ctx)
	if err != nil {
		return err
	}
	if err := copier.people(ctx); err != nil {
		return err
	}
	return copier.own(ctx)
}

// makeNamespace makes the namespace, where there is none, with the rights that agents' pods need.
func (m Move) makeNamespace(ctx context.Context) error {
	_, err := m.Client.CoreV1().Namespaces().Get(ctx, m.To, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.To, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}
	if _, err := m.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making namespace %s: %w", m.To, err)
	}
	m.Say("made namespace " + m.To)
	return nil
}

// secretsOf are the names of the Secrets with passwords of sessions, sorted.
func secretsOf(inv *inventory.Inventory) (names []string) {
	for _, rack := range inv.Racks {
		for _, machine := range rack.Machines {
			for _, session := range inv.Sessions(machine) {
				if session.Password.Secret != "" {
					names = append(names, session.Password.Secret)
				}
			}
		}
	}
	return inventory.SortedOnce(names)
}

// copySecrets copies those Secrets that the new namespace has not got: what is there somebody has put
// there on purpose.
func (m Move) copySecrets(ctx context.Context, names []string) error {
	secrets := m.Client.CoreV1().Secrets(m.To)
	for _, name := range names {
		if _, err := secrets.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			if err != nil {
				return fmt.Errorf("looking for Secret %s in namespace %s: %w", name, m.To, err)
			}
			continue
		}
		from, err := m.Client.CoreV1().Secrets(m.From).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // sessions that need it are down already
		}
		if err != nil {
			return fmt.Errorf("reading Secret %s: %w", name, err)
		}
		next := &v1.Secret{ObjectMeta: copyMeta(from.ObjectMeta), Type: from.Type, Data: from.Data, Immutable: from.Immutable}
		if _, err := secrets.Create(ctx, next, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("copying Secret %s: %w", name, err)
		}
		m.Say("copied Secret " + name)
	}
	return nil
}

// lastApplied is the annotation with the configuration that kubectl apply applied last, which is for an object of the former namespace.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// copyMeta copies the metadata of an object that counts in another namespace as well.
func copyMeta(from metav1.ObjectMeta) metav1.ObjectMeta {
	to := metav1.ObjectMeta{Name: from.Name, Labels: from.Labels, Annotations: map[string]string{}}
	for k, v := range from.Annotations {
		// Nobody leads there yet, and whoever comes follows by a lease of its own.
		if !slices.Contains([]string{lastApplied, AnnotationMovedTo, source.AnnotationLease, source.AnnotationNextLease, source.AnnotationProgram}, k) {
			to.Annotations[k] = v
		}
	}
	return to
}
