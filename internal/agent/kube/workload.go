package kube

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// replicaSetCreators are what creates ReplicaSets, and the label of the pods with the end of the ReplicaSet's name.
var replicaSetCreators = []struct{ kind, label string }{
	{"Deployment", "pod-template-hash"},
	{"Rollout", "rollouts-pod-template-hash"}, // of Argo Rollouts
}

// workload returns the name and kind of what created a pod, without asking for other objects:
//
//   - A ReplicaSet of a Deployment has its name, "-", and the value of a label of the pod.
//   - A Job of a CronJob has its name, "-", and the scheduled time in minutes since the Unix epoch. A Job with such a name that was not
//     created by a CronJob is taken for one if the time is also close before that of the pod.
//   - A static pod has its own name, "-", and that of the node.
//   - A pod without a controller has its own name.
func workload(p *corev1.Pod) (name, kind string) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || validation.IsDNS1123Subdomain(owner.Name) != nil || len(owner.Kind) > maxID || !isID(owner.Kind) {
		return p.Name, "Pod"
	}
	switch owner.Kind {
	case "ReplicaSet":
		for _, creator := range replicaSetCreators {
			if name, ok := strings.CutSuffix(owner.Name, "-"+p.Labels[creator.label]); ok && name != "" {
				return name, creator.kind
			}
		}
	case "Job":
		if cronJob, ok := cronJobOf(owner.Name, p.CreationTimestamp.Time); ok {
			return cronJob, "CronJob"
		}
	case "Node":
		return strings.TrimSuffix(p.Name, "-"+owner.Name), "Pod"
	}
	return owner.Name, owner.Kind
}

// maxJobAge is how long before the creation of a pod its Job can have been scheduled, to be recognised.
const maxJobAge = 30 * 24 * time.Hour

// cronJobOf returns the CronJob of a Job by the Job's name and the time when its pod was created.
func cronJobOf(job string, created time.Time) (string, bool) {
	i := strings.LastIndexByte(job, '-')
	if i <= 0 {
		return "", false
	}
	minutes, err := strconv.ParseUint(job[i+1:], 10, 32)
	if err != nil {
		return "", false
	}
	age := created.Sub(time.Unix(int64(minutes)*60, 0))
	return job[:i], age > -time.Hour && age < maxJobAge
}
