/** What of the node and its configuration goes into the messages for the runtime. */
export interface NodeFacts {
  readonly nodeName: string;
  /** The primary first. */
  readonly hostIPs: readonly string[];
  readonly memoryCapacityBytes: number;
  /** Of the file system that the root directory is on. */
  readonly storageCapacityBytes: number;
  readonly cpuCount: number;
  /** Folders of the CPUs that tell how often each was too hot. */
  readonly thermalThrottlePaths: readonly string[];
  readonly rootDir: string;
  readonly podLogsDir: string;
  readonly clusterDNS: readonly string[];
  readonly clusterDomain: string;
  /** Undefined where pods get nothing of the host's resolver (`resolvConf: ""`). */
  readonly hostResolvConf: ResolvConf | undefined;
  readonly cpuCFSQuota: boolean;
  readonly cpuCFSQuotaPeriodMs: number;
  readonly seccompDefault: boolean;
}

/** What resolv.conf(5) says. */
export interface ResolvConf {
  readonly nameservers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}
