// Runs the controller of Argo Rollouts that rolls Rollouts out, alone, against one API server, for the end-to-end tests. What the
// rest of Argo Rollouts does, experiments, analyses, traffic routing and notifications, no test uses; and upstream's program
// listens on all addresses.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"github.com/argoproj/argo-rollouts/controller/metrics"
	clientset "github.com/argoproj/argo-rollouts/pkg/client/clientset/versioned"
	rolloutscheme "github.com/argoproj/argo-rollouts/pkg/client/clientset/versioned/scheme"
	"github.com/argoproj/argo-rollouts/rollout"
	istioutil "github.com/argoproj/argo-rollouts/utils/istio"
	"github.com/argoproj/argo-rollouts/utils/queue"
	"github.com/argoproj/argo-rollouts/utils/record"
	"github.com/argoproj/argo-rollouts/utils/tolerantinformer"
)

const resync = 15 * time.Minute

func main() {
	runtime.Must(rolloutscheme.AddToScheme(scheme.Scheme))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check(err)
	config.QPS, config.Burst = 100, 200
	kube := kubernetes.NewForConfigOrDie(config)
	rollouts := clientset.NewForConfigOrDie(config)
	objects := dynamic.NewForConfigOrDie(config)
	builtIn := informers.NewSharedInformerFactory(kube, resync)
	own := dynamicinformer.NewDynamicSharedInformerFactory(objects, resync)
	// Never started: there is no Istio.
	istio := dynamicinformer.NewDynamicSharedInformerFactory(objects, resync)

	replicaSets, services := builtIn.Apps().V1().ReplicaSets(), builtIn.Core().V1().Services()
	all := tolerantinformer.NewTolerantRolloutInformer(own)
	experiments := tolerantinformer.NewTolerantExperimentInformer(own)
	runs := tolerantinformer.NewTolerantAnalysisRunInformer(own)
	templates := tolerantinformer.NewTolerantAnalysisTemplateInformer(own)
	clusterTemplates := tolerantinformer.NewTolerantClusterAnalysisTemplateInformer(own)
	workqueueOf := func(name string) workqueue.RateLimitingInterface {
		return workqueue.NewNamedRateLimitingQueue(queue.DefaultArgoRolloutsRateLimiter(), name)
	}
	controller := rollout.NewController(rollout.ControllerConfig{
		Namespace:         metav1.NamespaceAll,
		KubeClientSet:     kube,
		ArgoProjClientset: rollouts,
		DynamicClientSet:  objects,
		RefResolver: rollout.NewInformerBasedWorkloadRefResolver(
			metav1.NamespaceAll, objects, discovery.NewDiscoveryClientForConfigOrDie(config), rollouts, all.Informer(),
		),
		ExperimentInformer:              experiments,
		AnalysisRunInformer:             runs,
		AnalysisTemplateInformer:        templates,
		ClusterAnalysisTemplateInformer: clusterTemplates,
		IstioPrimaryDynamicClient:       objects,
		IstioVirtualServiceInformer:     istio.ForResource(istioutil.GetIstioVirtualServiceGVR()).Informer(),
		IstioDestinationRuleInformer:    istio.ForResource(istioutil.GetIstioDestinationRuleGVR()).Informer(),
		ReplicaSetInformer:              replicaSets,
		ServicesInformer:                services,
		RolloutsInformer:                all,
		ResyncPeriod:                    resync,
		RolloutWorkQueue:                workqueueOf("Rollouts"),
		ServiceWorkQueue:                workqueueOf("Services"),
		IngressWorkQueue:                workqueueOf("Ingresses"),
		// Its port stays closed.
		MetricsServer: metrics.NewMetricsServer(metrics.ServerConfig{
			RolloutLister:                 all.Lister(),
			AnalysisRunLister:             runs.Lister(),
			AnalysisTemplateLister:        templates.Lister(),
			ClusterAnalysisTemplateLister: clusterTemplates.Lister(),
			ExperimentLister:              experiments.Lister(),
			K8SRequestProvider:            &metrics.K8sRequestsCountProvider{},
		}),
		Recorder: record.NewEventRecorder(
			kube, metrics.MetricRolloutEventsTotal, metrics.MetricNotificationFailedTotal,
			metrics.MetricNotificationSuccessTotal, metrics.MetricNotificationSend, nil,
		),
		EphemeralMetadataThreads:    rollout.DefaultEphemeralMetadataThreads,
		EphemeralMetadataPodRetries: rollout.DefaultEphemeralMetadataPodRetries,
	})

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	builtIn.Start(ctx.Done())
	own.Start(ctx.Done())
	if !cache.WaitForCacheSync(
		ctx.Done(), replicaSets.Informer().HasSynced, services.Informer().HasSynced, all.Informer().HasSynced,
		experiments.Informer().HasSynced, runs.Informer().HasSynced, templates.Informer().HasSynced,
		clusterTemplates.Informer().HasSynced,
	) {
		log.Fatal("the informers have not synced")
	}
	check(controller.Run(ctx, 4))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
