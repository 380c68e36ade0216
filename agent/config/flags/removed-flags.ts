/** Removed kubelet flags by the Kubernetes release that removed them: old command lines still use them. */
const byRelease: Readonly<Record<string, readonly string[]>> = {
  "1.12": ["cadvisor-port"],
  "1.15": ["allow-privileged"],
  "1.24": [
    "cni-bin-dir",
    "cni-cache-dir",
    "cni-conf-dir",
    "docker-endpoint",
    "dynamic-config-dir",
    "experimental-dockershim-root-directory",
    "image-pull-progress-deadline",
    "network-plugin",
    "network-plugin-mtu",
    "non-masquerade-cidr",
  ],
  "1.26": [
    "add-dir-header",
    "alsologtostderr",
    "log-backtrace-at",
    "log-dir",
    "log-file",
    "log-file-max-size",
    "logtostderr",
    "one-output",
    "skip-headers",
    "skip-log-headers",
    "stderrthreshold",
  ],
  "1.27": ["container-runtime", "master-service-namespace"],
  "1.31": ["iptables-drop-bit", "iptables-masquerade-bit", "keep-terminated-pod-volumes"],
  "1.35": ["pod-infra-container-image"],
};

/** The release that removed a flag, such as `1.27`; undefined for a name that was never a flag. */
export function removalRelease(flag: string): string | undefined {
  return Object.entries(byRelease).find(([, names]) => names.includes(flag))?.[0];
}
