// Prints the kubelet's own values: `defaults` is a defaulted KubeletConfiguration without set fields, `gates` every
// feature gate it accepts, as "name on|off stage [locked]". It compiles the whole kubelet, so no test runs it:
//
//	go run . defaults > ../../golden/kubelet-config-defaults.json
//	go run . gates > ../../golden/kubelet-feature-gates.txt
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubelet/config/v1beta1"
	_ "k8s.io/kubernetes/cmd/kubelet/app"
	defaults "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
)

func main() {
	switch os.Args[1] {
	case "defaults":
		printDefaults()
	case "gates":
		printGates()
	}
}

func printDefaults() {
	config := &v1beta1.KubeletConfiguration{}
	defaults.SetDefaults_KubeletConfiguration(config)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(config); err != nil {
		panic(err)
	}
}

func printGates() {
	gates := utilfeature.DefaultMutableFeatureGate.GetAll()
	stages := map[string]string{"": "ga", "ALPHA": "alpha", "BETA": "beta", "DEPRECATED": "deprecated"}
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		spec := gates[featuregate.Feature(name)]
		state, lock := "off", ""
		if spec.Default {
			state = "on"
		}
		if spec.LockToDefault {
			lock = " locked"
		}
		fmt.Printf("%s %s %s%s\n", name, state, stages[string(spec.PreRelease)], lock)
	}
}
