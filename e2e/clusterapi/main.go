// Runs Cluster API's own controllers against one API server, for the end-to-end tests, with an infrastructure provider whose
// machines are KWOK nodes. Webhooks are not installed: the tests' objects are complete and need no defaults.
//
// A LabMachine with spec.neverJoins gets no Node. One with spec.failure is not provisioned: the text is the message of
// its condition Ready.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/util/index"
)

const (
	name      = "lab-cluster-api"
	finalizer = "lab.infrastructure.cluster.x-k8s.io"
)

var labMachines = schema.GroupVersionKind{
	Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "LabMachine",
}

func main() {
	ctrl.SetLogger(klog.Background())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, storagev1.AddToScheme, clusterv1.AddToScheme,
	} {
		check(add(scheme))
	}
	config := ctrl.GetConfigOrDie()
	config.QPS, config.Burst = 100, 200
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   setup.ManagerCacheOptions(scheme, name, "", 10*time.Minute),
		Client:  setup.ManagerClientOptions(),
	})
	check(err)
	ctx := ctrl.SetupSignalHandler()
	check(index.AddDefaultIndexes(ctx, manager))
	reconcilers(ctx, manager)
	// Reads past the cache: the infrastructure provider has no watches.
	direct, err := client.New(config, client.Options{Scheme: scheme})
	check(err)
	go infrastructure(ctx, direct)
	fmt.Println("starting")
	check(manager.Start(ctx))
}

func reconcilers(ctx context.Context, manager ctrl.Manager) {
	workers := controller.Options{MaxConcurrentReconciles: 5}
	secrets, err := setup.CreateSecretCachingClient(manager)
	check(err)
	clusters, err := clustercache.SetupWithManager(ctx, manager, clustercache.Options{
		SecretClient: secrets,
		Cache:        setup.ClusterCacheCacheOptions(),
		Client:       setup.ClusterCacheClientOptions(name, 100, 200),
	}, workers)
	check(err)
	api, reader := manager.GetClient(), manager.GetAPIReader()
	check((&cluster.Reconciler{
		Client: api, APIReader: reader, ClusterCache: clusters, RemoteConnectionGracePeriod: 50 * time.Second,
	}).SetupWithManager(ctx, manager, workers))
	check((&machine.Reconciler{
		Client: api, APIReader: reader, ClusterCache: clusters, RemoteConditionsGracePeriod: 5 * time.Minute,
	}).SetupWithManager(ctx, manager, workers))
	check((&machineset.Reconciler{
		Client: api, APIReader: reader, ClusterCache: clusters,
	}).SetupWithManager(ctx, manager, workers))
	check((&machinedeployment.Reconciler{
		Client: api, APIReader: reader,
	}).SetupWithManager(ctx, manager, workers))
	check((&machinehealthcheck.Reconciler{
		Client: api, ClusterCache: clusters,
	}).SetupWithManager(ctx, manager, workers))
}

// The infrastructure provider: reconciles all LabMachines five times a second.
func infrastructure(ctx context.Context, api client.Client) {
	for ctx.Err() == nil {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(labMachines)
		if err := api.List(ctx, list); err != nil {
			log.Printf("LabMachines cannot be listed: %v", err)
		}
		for i := range list.Items {
			if err := provision(ctx, api, &list.Items[i]); err != nil {
				log.Printf("LabMachine %s: %v", list.Items[i].GetName(), err)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Takes a machine one step further: a finalizer, an id, a Node, then provisioned.
func provision(ctx context.Context, api client.Client, lab *unstructured.Unstructured) error {
	if lab.GetDeletionTimestamp() != nil {
		lab.SetFinalizers(nil)
		return client.IgnoreNotFound(api.Update(ctx, lab))
	}
	if done, _, _ := unstructured.NestedBool(lab.Object, "status", "initialization", "provisioned"); done {
		return nil
	}
	owner := owningMachine(lab)
	if owner == "" {
		return nil
	}
	if failure, _, _ := unstructured.NestedString(lab.Object, "spec", "failure"); failure != "" {
		if _, reported, _ := unstructured.NestedSlice(lab.Object, "status", "conditions"); reported {
			return nil
		}
		return setReady(ctx, api, lab, metav1.ConditionFalse, "InstanceProvisionFailed", failure)
	}
	id := "lab://" + lab.GetName()
	if _, found, _ := unstructured.NestedString(lab.Object, "spec", "providerID"); !found {
		lab.SetFinalizers([]string{finalizer})
		if err := unstructured.SetNestedField(lab.Object, id, "spec", "providerID"); err != nil {
			return err
		}
		return api.Update(ctx, lab)
	}
	if never, _, _ := unstructured.NestedBool(lab.Object, "spec", "neverJoins"); !never {
		if err := api.Create(ctx, node(lab.GetName(), id)); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	if err := unstructured.SetNestedField(lab.Object, true, "status", "initialization", "provisioned"); err != nil {
		return err
	}
	return setReady(ctx, api, lab, metav1.ConditionTrue, "Ready", "")
}

func setReady(
	ctx context.Context, api client.Client, lab *unstructured.Unstructured, status metav1.ConditionStatus, reason, message string,
) error {
	ready := map[string]any{
		"type": "Ready", "status": string(status), "reason": reason, "message": message,
		"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
	}
	if err := unstructured.SetNestedSlice(lab.Object, []any{ready}, "status", "conditions"); err != nil {
		return err
	}
	return api.Status().Update(ctx, lab)
}

func owningMachine(lab *unstructured.Unstructured) string {
	for _, owner := range lab.GetOwnerReferences() {
		if owner.Kind == "Machine" {
			return owner.Name
		}
	}
	return ""
}

// A Node that KWOK keeps ready.
func node(name, id string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{"type": "kwok", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Spec: corev1.NodeSpec{
			ProviderID: id,
			Taints:     []corev1.Taint{{Key: clusterv1.NodeUninitializedTaint.Key, Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{Capacity: amounts(), Allocatable: amounts()},
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
