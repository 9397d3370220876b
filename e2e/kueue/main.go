// Runs the controller of Kueue that makes ProvisioningRequests of Workloads, alone, against one API server, for the end-to-end
// tests. What the rest of Kueue does, queues and quotas and jobs, the tests do by writing the status of Workloads.
package main

import (
	"fmt"
	"log"

	"k8s.io/apimachinery/pkg/runtime"
	provisioningv1 "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/provisioning"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
)

func main() {
	ctrl.SetLogger(klog.Background())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, provisioningv1.AddToScheme, kueue.AddToScheme,
	} {
		check(add(scheme))
	}
	config := ctrl.GetConfigOrDie()
	config.QPS, config.Burst = 100, 200
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	check(err)
	ctx := ctrl.SetupSignalHandler()
	check(provisioning.ServerSupportsProvisioningRequest(manager))
	check(provisioning.SetupIndexer(ctx, manager.GetFieldIndexer()))
	check(manager.GetFieldIndexer().IndexField(
		ctx, &kueue.Workload{}, indexer.WorkloadAdmissionCheckKey, indexer.IndexWorkloadAdmissionCheck,
	))
	controller, err := provisioning.NewController(manager.GetClient(), manager.GetEventRecorder("kueue-provisioning"), nil)
	check(err)
	check(controller.SetupWithManager(manager))
	fmt.Println("starting")
	check(manager.Start(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
