import type { Clock } from "../../host/clock.ts";
import type { Machine } from "../../host/machine.ts";
import { readProcessFigures } from "../../host/process-figures.ts";
import { kubernetesVersion } from "../../proto/kubernetes/version.ts";
import type { Config } from "../config/config.ts";
import { implementedGateStates } from "../config/kubelet-config/gates.ts";
import type { VolumeListing } from "../serve/local/volume-list.ts";
import { setCertificateGauges } from "../serve/metrics/certificate-gauges.ts";
import type { KubeletMetrics } from "../serve/metrics/kubelet-metrics.ts";
import type { MetricsRoutesDeps } from "../serve/metrics/metrics-routes.ts";
import { type ClaimFigures, type FixedFigures, setNodeGauges } from "../serve/metrics/node-gauges.ts";
import type { Agent } from "./agent.ts";

/** Each returns a certificate in PEM, or undefined if there is none. */
export interface CertificatesInUse {
  /** Shown to the API server. */
  readonly client: () => string | undefined;
  /** Shown to clients of the node's API. */
  readonly serving: () => string | undefined;
}

interface MetricsPagesOptions {
  readonly metrics: KubeletMetrics;
  readonly agent: Pick<Agent, "setPodGauges">;
  readonly config: Pick<Config, "nodeName" | "kubeletConfiguration">;
  readonly thisMachine: Pick<Machine, "hasCgroupV2">;
  /** Measures the volumes of all pods. */
  readonly volumes: () => Promise<VolumeListing>;
  readonly certificates: CertificatesInUse;
  readonly clock: Pick<Clock, "now">;
}

/** The pages of metrics. Gauges are read when a page is asked for, and nothing is read otherwise. */
export function createMetricsPages(options: MetricsPagesOptions): MetricsRoutesDeps {
  const { metrics, agent, config, thisMachine, volumes, certificates, clock } = options;
  const fixed: FixedFigures = {
    nodeName: config.nodeName,
    cgroupVersion: thisMachine.hasCgroupV2 ? 2 : 1,
    featureGates: implementedGateStates(new Map(Object.entries(config.kubeletConfiguration.featureGates))),
    kubernetesVersion,
    platform: `linux/${process.arch === "x64" ? "amd64" : process.arch}`,
    compiler: `bun${Bun.version}`,
  };
  return {
    async kubelet() {
      const claims = claimFigures(await volumes());
      agent.setPodGauges();
      setNodeGauges(metrics, fixed, { process: readProcessFigures(), claims });
      setCertificateGauges(metrics, certificates.client(), certificates.serving(), clock.now());
      return metrics.kubelet.families();
    },
    probes() {
      metrics.probes.set("process_start_time_seconds", readProcessFigures().startedSeconds);
      return metrics.probes.families();
    },
    health() {
      metrics.health.set("process_start_time_seconds", readProcessFigures().startedSeconds);
      return metrics.health.families();
    },
    resetHealth() {
      metrics.health.clear("kubernetes_healthcheck");
      metrics.health.clear("kubernetes_healthchecks_total");
    },
  };
}

/** Each claim once, with figures if its volume has any. */
function claimFigures({ pods }: VolumeListing): readonly ClaimFigures[] {
  const found = pods.flatMap(({ namespace, volumes }) =>
    volumes.flatMap(({ claim, usedBytes, availableBytes, capacityBytes, inodes, inodesFree, inodesUsed }) =>
      claim === undefined ||
      usedBytes === undefined ||
      availableBytes === undefined ||
      capacityBytes === undefined ||
      inodes === undefined ||
      inodesFree === undefined ||
      inodesUsed === undefined
        ? []
        : [{ namespace, claim, usedBytes, availableBytes, capacityBytes, inodes, inodesFree, inodesUsed }],
    ),
  );
  return [...new Map(found.map((each) => [`${each.namespace}/${each.claim}`, each])).values()];
}
