import type { CreateCredentialProviders } from "../../../agent/act/images/credential-providers.ts";
import type { ImageVerificationSettings } from "../../../agent/decide/admission/image-verification.ts";
import type { NodeRule } from "../../../agent/decide/node/node.ts";
import type { CniVersion } from "../../../cni/version.ts";
import type { RuntimeEventSource } from "../../../cri/runtime.ts";
import type { CgroupDriver, ChangeDetectionStrategy } from "../../../proto/kubelet/config.ts";
import type { AgentHarness } from "../harness.ts";
import type { ExpectedRegression } from "./expected-regressions.ts";

/** In what the nodes of scenarios differ. */
export interface HarnessOptions {
  readonly startSlots?: number;
  /** By default true. */
  readonly earlyProbes?: boolean;
  readonly keepsReferencedObjects?: boolean;
  /** Default: `Watch`. */
  readonly changeDetectionStrategy?: ChangeDetectionStrategy;
  readonly maxContainerRestartPeriodMs?: number;
  readonly allowedUnsafeSysctls?: readonly string[];
  readonly parallelPulls?: number;
  /** Creates the credential providers of each agent of the node. */
  readonly createCredentialProviders?: (harness: AgentHarness) => CreateCredentialProviders;
  readonly imageVerification?: ImageVerificationSettings["policy"];
  /** Default: the cluster's DNS server. */
  readonly clusterDNS?: readonly string[];
  /** The node is in a cluster: pods also come from an API server. */
  readonly isInCluster?: boolean;
  /** Default: 110. */
  readonly maxPods?: number;
  /** The agent dies right after this mutating call (counted from 0); the next agent starts at once. */
  readonly dieAfterCall?: number;
  /** The number of pods that can have a user namespace at once; 1000 by default. */
  readonly userNamespaceSlots?: number;
  /** `cgroupsPerQOS`: pods and the node have cgroups; false by default. */
  readonly hasCgroups?: boolean;
  /** The agent owns the network of pods: it executes a chain of plugins for the delegate of the runtime. False by default. */
  readonly ownsNetwork?: boolean;
  /** The version of that chain. Default: 1.1.0, which has GC. */
  readonly chainVersion?: CniVersion;
  /** Default: cgroupfs. */
  readonly cgroupDriver?: CgroupDriver;
  /** The rules by which the node itself ends pods; none by default. */
  readonly nodeRules?: readonly NodeRule[];
  /** The source of the runtime's events; by default containerd's own. */
  readonly eventSource?: RuntimeEventSource;
  /**
   * How long the runtime's status lags behind the next exit. By default the seed selects the lags, and `waitsForExits` is
   * true.
   */
  readonly exitLagMs?: () => number;
  /**
   * The status lags for two milliseconds only, and each method of the harness waits until it shows the exit. A comment at
   * its use says why. Has no effect beside `exitLagMs`; false by default.
   */
  readonly hasShortLag?: boolean;
  /**
   * Whether `apiPods` and `events` wait until the runtime shows every exit, and whether `advance` adds the time until the
   * agent has seen them. False by default where the lags are chosen.
   */
  readonly waitsForExits?: boolean;
  /**
   * The steps back of statuses in the API that are right on this node; none by default. Without `dieAfterCall` any other
   * one fails the test, and so does one of these that the test does not show.
   */
  readonly regressions?: readonly ExpectedRegression[];
}
