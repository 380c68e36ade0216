/**
 * A string with a known set of values.
 *
 * `closed`: the API server of this release rejects other values, so the type is the bare union and a `switch` over it
 * can be checked for completeness. `open`: other components or later releases add values (condition types, reasons), so
 * the known ones are listed for completion and any string is allowed.
 */
export interface EnumType {
  readonly openness: "closed" | "open";
  readonly values: readonly string[];
}

/** Names for the enumerations by `Schema.property`. Enumerations of the document need no values here. */
export const enumNames: Readonly<Record<string, string>> = {
  "AppArmorProfile.type": "AppArmorProfileType",
  "CSIDriverSpec.fsGroupPolicy": "FSGroupPolicy",
  "CSIDriverSpec.volumeLifecycleModes": "VolumeLifecycleMode",
  "CertificateSigningRequestCondition.status": "ConditionStatus",
  "CertificateSigningRequestCondition.type": "CertificateSigningRequestConditionType",
  "Condition.status": "ConditionStatus",
  "Container.imagePullPolicy": "PullPolicy",
  "Container.restartPolicy": "ContainerRestartPolicy",
  "Container.terminationMessagePolicy": "TerminationMessagePolicy",
  "ContainerPort.protocol": "Protocol",
  "ContainerResizePolicy.restartPolicy": "ResourceResizeRestartPolicy",
  "ContainerRestartRule.action": "ContainerRestartRuleAction",
  "ContainerRestartRuleOnExitCodes.operator": "ContainerRestartRuleOperator",
  "ContainerStatus.stopSignal": "Signal",
  "EmptyDirVolumeSource.medium": "StorageMedium",
  "EphemeralContainer.imagePullPolicy": "PullPolicy",
  "EphemeralContainer.restartPolicy": "ContainerRestartPolicy",
  "EphemeralContainer.terminationMessagePolicy": "TerminationMessagePolicy",
  "Event.type": "EventType",
  "HTTPGetAction.scheme": "URIScheme",
  "HostPathVolumeSource.type": "HostPathType",
  "ImageVolumeSource.pullPolicy": "PullPolicy",
  "LabelSelectorRequirement.operator": "LabelSelectorOperator",
  "Lifecycle.stopSignal": "Signal",
  "NamespaceCondition.status": "ConditionStatus",
  "NamespaceStatus.phase": "NamespacePhase",
  "NodeAddress.type": "NodeAddressType",
  "NodeCondition.status": "ConditionStatus",
  "NodeCondition.type": "NodeConditionType",
  "NodeSelectorRequirement.operator": "NodeSelectorOperator",
  "PersistentVolumeClaimCondition.status": "ConditionStatus",
  "PersistentVolumeClaimSpec.accessModes": "PersistentVolumeAccessMode",
  "PersistentVolumeClaimSpec.volumeMode": "PersistentVolumeMode",
  "PersistentVolumeClaimStatus.accessModes": "PersistentVolumeAccessMode",
  "PersistentVolumeClaimStatus.allocatedResourceStatuses": "ClaimResourceStatus",
  "PersistentVolumeClaimStatus.phase": "PersistentVolumeClaimPhase",
  "PersistentVolumeSpec.accessModes": "PersistentVolumeAccessMode",
  "PersistentVolumeSpec.persistentVolumeReclaimPolicy": "PersistentVolumeReclaimPolicy",
  "PersistentVolumeSpec.volumeMode": "PersistentVolumeMode",
  "PersistentVolumeStatus.phase": "PersistentVolumePhase",
  "PodCondition.status": "ConditionStatus",
  "PodCondition.type": "PodConditionType",
  "PodOS.name": "OSName",
  "PodSecurityContext.fsGroupChangePolicy": "PodFSGroupChangePolicy",
  "PodSecurityContext.seLinuxChangePolicy": "PodSELinuxChangePolicy",
  "PodSecurityContext.supplementalGroupsPolicy": "SupplementalGroupsPolicy",
  "PodSpec.dnsPolicy": "DNSPolicy",
  "PodSpec.preemptionPolicy": "PreemptionPolicy",
  "PodSpec.restartPolicy": "RestartPolicy",
  "PodStatus.phase": "PodPhase",
  "PodStatus.qosClass": "PodQOSClass",
  "PortStatus.protocol": "Protocol",
  "ResourceHealth.health": "ResourceHealthStatus",
  "SeccompProfile.type": "SeccompProfileType",
  "SecurityContext.procMount": "ProcMountType",
  "ServicePort.protocol": "Protocol",
  "ServiceSpec.ipFamilies": "IPFamily",
  "ServiceSpec.type": "ServiceType",
  "Status.status": "StatusOutcome",
  "Taint.effect": "TaintEffect",
  "Toleration.effect": "TaintEffect",
  "Toleration.operator": "TolerationOperator",
  "VolumeMount.mountPropagation": "MountPropagationMode",
  "VolumeMount.recursiveReadOnly": "RecursiveReadOnlyMode",
  "VolumeMountStatus.recursiveReadOnly": "RecursiveReadOnlyMode",
  "WatchEvent.type": "WatchEventType",
};

/** Enumerations that the API only documents in prose, and those of the document that others extend. */
const enumTypes: Readonly<Record<string, EnumType>> = {
  CertificateSigningRequestConditionType: { openness: "closed", values: ["Approved", "Denied", "Failed"] },
  ConditionStatus: { openness: "closed", values: ["False", "True", "Unknown"] },
  ContainerRestartPolicy: { openness: "closed", values: ["Always", "Never", "OnFailure"] },
  ContainerRestartRuleAction: { openness: "closed", values: ["Restart", "RestartAllContainers"] },
  ContainerRestartRuleOperator: { openness: "closed", values: ["In", "NotIn"] },
  EventType: { openness: "closed", values: ["Normal", "Warning"] },
  FSGroupPolicy: { openness: "closed", values: ["File", "None", "ReadWriteOnceWithFSType"] },
  LabelSelectorOperator: { openness: "closed", values: ["DoesNotExist", "Exists", "In", "NotIn"] },
  NodeAddressType: {
    openness: "open",
    values: ["ExternalDNS", "ExternalIP", "Hostname", "InternalDNS", "InternalIP"],
  },
  NodeConditionType: {
    openness: "open",
    values: ["DiskPressure", "MemoryPressure", "NetworkUnavailable", "PIDPressure", "Ready"],
  },
  OSName: { openness: "closed", values: ["linux", "windows"] },
  PodConditionType: {
    openness: "open",
    values: [
      "AllContainersRestarting",
      "ContainersReady",
      "DisruptionTarget",
      "Initialized",
      "PodReadyToStartContainers",
      "PodResizeInProgress",
      "PodResizePending",
      "PodScheduled",
      "Ready",
    ],
  },
  PodSELinuxChangePolicy: { openness: "closed", values: ["MountOption", "Recursive"] },
  RecursiveReadOnlyMode: { openness: "closed", values: ["Disabled", "Enabled", "IfPossible"] },
  ResourceHealthStatus: { openness: "closed", values: ["Healthy", "Unhealthy", "Unknown"] },
  ResourceResizeRestartPolicy: { openness: "closed", values: ["NotRequired", "RestartContainer"] },
  StatusOutcome: { openness: "closed", values: ["Failure", "Success"] },
  StorageMedium: { openness: "open", values: ["", "HugePages", "Memory"] },
  VolumeLifecycleMode: { openness: "closed", values: ["Ephemeral", "Persistent"] },
  WatchEventType: { openness: "closed", values: ["ADDED", "BOOKMARK", "DELETED", "ERROR", "MODIFIED"] },
};

/** The named enumeration of a field; undefined for a free string. */
export function enumOf(
  field: string,
  documented: readonly string[] | undefined,
): (EnumType & { name: string }) | undefined {
  const name = enumNames[field];
  if (name === undefined) return documented && { name: field, openness: "closed", values: documented };
  const type = enumTypes[name] ?? (documented && { openness: "closed", values: documented });
  if (type === undefined) throw new Error(`${field}: neither the document nor enums.ts lists the values of ${name}`);
  return { name, ...type };
}
