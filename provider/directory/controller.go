package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/queue"
	"plinth.dev/plinth/routing"
)

const (
	// pace is the pause between a change of a Node and the pass that stores it, so that many changes are one write, and the pause after a
	// pass for each 20 KiB that it stored: all that is stored is sent to many agents.
	pace = 100 * time.Millisecond

	// paceOfOthers is the pause between a write to the directory and the pass that looks at it: somebody else may write again and again.
	paceOfOthers = time.Second

	bytesOfPace = 20 << 10

	paceMost = time.Minute // after passes that failed, whatever changes

	all = "all" // the one key of the queue
)

// Controller keeps the directory as the Nodes are, by passes that each look at all of it.
//
// It uses these verbs of the API, the ConfigMaps' in Plinth's namespace:
//
//	nodes       list watch
//	configmaps  get list watch create update delete, of the names [IndexName] and [PageName]
type Controller struct {
	Client    kubernetes.Interface
	Namespace string
	Log       *slog.Logger

	nodes corelisters.NodeLister
	maps  corelisters.ConfigMapNamespaceLister // of the directory
	queue *queue.Queue

	// Used by the one worker.
	next    time.Time     // no pass before this
	retry   time.Duration // the pause after the last pass, if it failed; 0: it did not
	missing []string      // racks that were logged to have no page
}

// Start starts the controller, which runs until ctx ends.
func (c *Controller) Start(ctx context.Context, nodes coreinformers.NodeInformer) error {
	c.Log = c.Log.With("controller", "directory of Nodes")
	c.queue = queue.New("plinth_directory", c.Log, c.sync)
	c.nodes = nodes.Lister()
	if _, err := nodes.Informer().AddEventHandler(c.ofNodes()); err != nil {
		return err
	}
	stored := coreinformers.NewFilteredConfigMapInformer(c.Client, c.Namespace, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		func(o *metav1.ListOptions) { o.LabelSelector = Selector })
	c.maps = corelisters.NewConfigMapLister(stored.GetIndexer()).ConfigMaps(c.Namespace)
	later := func(any) { c.queue.AddAfter(all, paceOfOthers) }
	_, err := stored.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: later, UpdateFunc: func(_, is any) { later(is) }, DeleteFunc: later})
	if err != nil {
		return err
	}
	go stored.RunWithContext(ctx)
	go c.run(ctx, nodes.Informer().HasSynced, stored.HasSynced)
	return nil
}

func (c *Controller) run(ctx context.Context, synced ...cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	c.queue.Add(all)
	c.queue.Run(ctx, 1)
}

// ofNodes has a pass made where something of a Node changed that other machines need.
func (c *Controller) ofNodes() cache.ResourceEventHandler {
	soon := func(any) { c.queue.AddAfter(all, pace) }
	return cache.ResourceEventHandlerFuncs{
		AddFunc: soon, DeleteFunc: soon,
		UpdateFunc: func(was, is any) {
			if !reflect.DeepEqual(entryOf(was.(*v1.Node)), entryOf(is.(*v1.Node))) {
				soon(is)
			}
		},
	}
}

// entry is all that the directory has of a Node.
type entry struct {
	page   routing.Node
	inPool bool
	has    []netip.Prefix
}

func entryOf(node *v1.Node) entry {
	e := entry{page: NodeOf(node), inPool: node.Labels[lb.InPoolLabel] != ""}
	if e.inPool {
		e.has = TakenOf(node)
	}
	return e
}

// sync makes a pass, unless it is too early.
func (c *Controller) sync(ctx context.Context, _ string) error {
	if left := time.Until(c.next); left > 0 {
		c.queue.AddAfter(all, left)
		return nil
	}
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	stored, err := c.maps.List(labels.Everything())
	if err != nil {
		return err
	}
	pass := newPass(c, nodes, stored)
	err = pass.store(ctx, indexOf(nodes))
	c.paceAfter(pass, err)
	return err
}

// paceAfter has the next pass wait for as long as this one asks for.
func (c *Controller) paceAfter(p *pass, err error) {
	pause := pace * time.Duration(p.stored/bytesOfPace)
	if err == nil {
		c.retry = 0
	} else {
		c.retry = min(max(2*c.retry, pace), paceMost)
		pause = max(pause, c.retry)
	}
	c.next = time.Now().Add(pause)
}

// pass is one pass over the whole directory.
type pass struct {
	*Controller
	pages  map[string]Page            // as they are to be, by rack
	rackOf map[string]string          // by the name of the Node
	have   map[string]*v1.ConfigMap   // as they are, by name
	held   map[string]map[string]bool // names of the Nodes that the stored pages have, by rack
	stored int                        // bytes so far
}

func newPass(c *Controller, nodes []*v1.Node, stored []*v1.ConfigMap) *pass {
	p := &pass{Controller: c, pages: pagesOf(nodes), rackOf: map[string]string{}, have: map[string]*v1.ConfigMap{}, held: map[string]map[string]bool{}}
	for rack, page := range p.pages {
		for _, node := range page {
			p.rackOf[node.Name] = rack
		}
	}
	for _, cm := range stored {
		p.have[cm.Name] = cm
		p.hold(cm)
	}
	return p
}

// hold notes which Nodes a page has that is stored. One that cannot be read has none.
func (p *pass) hold(cm *v1.ConfigMap) {
	rack, ok := RackOf(cm.Name)
	page, err := PageIn(cm)
	if !ok || err != nil {
		return
	}
	p.held[rack] = map[string]bool{}
	for _, node := range page {
		p.held[rack][node.Name] = true
	}
}

// store stores all that differs, so that each Node is in a page all the time, and a page is there while the index names it. What of it cannot be
// stored does not hold up the rest: agents watch the Nodes of that rack.
func (p *pass) store(ctx context.Context, index Index) error {
	var failed []error
	var left []string // racks whose pages still have Nodes that moved
	for _, rack := range slices.Sorted(maps.Keys(p.pages)) {
		moved := p.moved(rack)
		if len(moved) > 0 {
			left = append(left, rack)
		}
		cm, fits := p.pages[rack].with(moved).configMap(rack)
		switch err := p.put(ctx, cm, fits); {
		case apierrors.IsConflict(err):
			return err // what is stored is not what this pass goes by
		case err != nil:
			failed = append(failed, err)
			index.Missing = append(index.Missing, rack)
		case !fits:
			failed = append(failed, p.drop(ctx, cm.Name))
			index.Missing = append(index.Missing, rack)
		default:
			index.Racks = append(index.Racks, rack)
		}
	}
	p.tellMissing(index.Missing)
	cm, fits := index.configMap()
	if err := p.put(ctx, cm, fits); apierrors.IsConflict(err) {
		return err
	} else if err != nil || !fits {
		// Without it agents watch Nodes, which is better than an index that has grown old.
		return errors.Join(append(failed, err, p.drop(ctx, IndexName))...)
	}
	for _, rack := range left {
		if cm, fits := p.pages[rack].with(p.moved(rack)).configMap(rack); fits {
			failed = append(failed, p.put(ctx, cm, fits))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.have)) {
		if rack, ok := RackOf(name); ok && p.pages[rack] == nil {
			failed = append(failed, p.drop(ctx, name))
		}
	}
	return errors.Join(failed...)
}

// tellMissing logs which racks have no page, when they are others than before.
func (p *pass) tellMissing(racks []string) {
	if !slices.Equal(p.missing, racks) && len(racks) > 0 {
		p.Log.Warn("agents watch Nodes themselves, which costs the API server more: of these racks the Nodes are not stored, or are more than a ConfigMap has room for", "racks", racks)
	}
	p.missing = racks
}

// moved are the Nodes that the stored page of a rack has, and that are in another rack now whose stored page does not have them.
func (p *pass) moved(rack string) (moved Page) {
	for name := range p.held[rack] {
		now, there := p.rackOf[name]
		if there && now != rack && !p.held[now][name] {
			i, _ := p.pages[now].find(name)
			moved = append(moved, p.pages[now][i])
		}
	}
	return moved
}

// put has a ConfigMap that fits be as it is to be. Labels and annotations of others stay.
func (p *pass) put(ctx context.Context, want *v1.ConfigMap, fits bool) error {
	have, there := p.have[want.Name]
	if !fits || there && says(have, want) {
		return nil
	}
	client := p.Client.CoreV1().ConfigMaps(p.Namespace)
	stored, err := have, error(nil)
	if !there {
		stored, err = client.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // the informer does not show it yet, or somebody took away its label
			have, err = client.Get(ctx, want.Name, metav1.GetOptions{})
			stored = have
		}
	}
	if err == nil && !says(stored, want) {
		stored, err = client.Update(ctx, over(have, want), metav1.UpdateOptions{})
		if apierrors.IsInvalid(err) { // somebody made it immutable: the next pass makes it anew
			err = errors.Join(err, p.remove(ctx, have))
		}
	}
	if err != nil {
		return fmt.Errorf("storing which Nodes there are: configmap %s: %w", want.Name, err)
	}
	p.have[want.Name] = stored
	p.hold(stored)
	for _, text := range want.Data {
		p.stored += len(text)
	}
	return nil
}

// drop deletes a ConfigMap if it was there.
func (p *pass) drop(ctx context.Context, name string) error {
	have, there := p.have[name]
	if !there {
		return nil
	}
	return p.remove(ctx, have)
}

// remove deletes a ConfigMap as it was read.
func (p *pass) remove(ctx context.Context, have *v1.ConfigMap) error {
	as := &metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion}
	err := p.Client.CoreV1().ConfigMaps(p.Namespace).Delete(ctx, have.Name, metav1.DeleteOptions{Preconditions: as})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting configmap %s: %w", have.Name, err)
	}
	return nil
}
