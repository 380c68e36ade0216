import type {
  Container,
  ContainerPort,
  EnvVar,
  EnvVarSource,
  EphemeralContainer,
  HTTPGetAction,
  Lifecycle,
  LifecycleHandler,
  Probe,
  PullPolicy,
} from "../gen/types.ts";
import { parseImageReference } from "../values/image-reference.ts";
import { defaultFieldRef, defaultResourceFieldRef } from "./references.ts";
import { defaultContainerResources } from "./resources.ts";

type AnyContainer = Container | EphemeralContainer;

/** Fills in the API's defaults of a container. Under hostNetwork, host ports default to the container's ports. */
export function defaultContainer<Kind extends AnyContainer>(container: Kind, usesHostNetwork: boolean): Kind {
  const { env, lifecycle, livenessProbe, ports, readinessProbe, startupProbe } = container;
  return {
    ...container,
    imagePullPolicy: container.imagePullPolicy || defaultImagePullPolicy(container.image ?? ""),
    resources: defaultContainerResources(container.resources ?? {}),
    terminationMessagePath: container.terminationMessagePath || "/dev/termination-log",
    terminationMessagePolicy: container.terminationMessagePolicy || "File",
    ...(env && { env: env.map(defaultEnvVar) }),
    ...(lifecycle && { lifecycle: defaultLifecycle(lifecycle) }),
    ...(livenessProbe && { livenessProbe: defaultProbe(livenessProbe) }),
    ...(ports && { ports: ports.map((port) => defaultPort(port, usesHostNetwork)) }),
    ...(readinessProbe && { readinessProbe: defaultProbe(readinessProbe) }),
    ...(startupProbe && { startupProbe: defaultProbe(startupProbe) }),
  };
}

/** `Always` for an image whose tag is `latest` or missing, else `IfNotPresent`. Rule: SetDefaults_Container. */
export function defaultImagePullPolicy(image: string): PullPolicy {
  const reference = parseImageReference(image);
  if (reference === undefined) return "IfNotPresent";
  const tag = reference.tag ?? (reference.digest === undefined ? "latest" : undefined);
  return tag === "latest" ? "Always" : "IfNotPresent";
}

function defaultPort(port: ContainerPort, usesHostNetwork: boolean): ContainerPort {
  return {
    ...port,
    ...(usesHostNetwork && { hostPort: port.hostPort || port.containerPort }),
    protocol: port.protocol || "TCP",
  };
}

function defaultEnvVar(variable: EnvVar): EnvVar {
  return { ...variable, ...(variable.valueFrom && { valueFrom: defaultEnvSource(variable.valueFrom) }) };
}

function defaultEnvSource(source: EnvVarSource): EnvVarSource {
  const { fieldRef, fileKeyRef, resourceFieldRef } = source;
  return {
    ...source,
    ...(fieldRef && { fieldRef: defaultFieldRef(fieldRef) }),
    ...(fileKeyRef && { fileKeyRef: { optional: false, ...fileKeyRef } }),
    ...(resourceFieldRef && { resourceFieldRef: defaultResourceFieldRef(resourceFieldRef) }),
  };
}

function defaultLifecycle(lifecycle: Lifecycle): Lifecycle {
  const { postStart, preStop } = lifecycle;
  return {
    ...lifecycle,
    ...(postStart && { postStart: defaultHook(postStart) }),
    ...(preStop && { preStop: defaultHook(preStop) }),
  };
}

function defaultHook(hook: LifecycleHandler): LifecycleHandler {
  return { ...hook, ...(hook.httpGet && { httpGet: defaultHttpGet(hook.httpGet) }) };
}

/** Rule: SetDefaults_Probe. Zero means unset. */
function defaultProbe(probe: Probe): Probe {
  const { grpc, httpGet } = probe;
  return {
    ...probe,
    failureThreshold: probe.failureThreshold || 3,
    periodSeconds: probe.periodSeconds || 10,
    successThreshold: probe.successThreshold || 1,
    timeoutSeconds: probe.timeoutSeconds || 1,
    ...(grpc && { grpc: { service: "", ...grpc } }),
    ...(httpGet && { httpGet: defaultHttpGet(httpGet) }),
  };
}

function defaultHttpGet(action: HTTPGetAction): HTTPGetAction {
  return { ...action, path: action.path || "/", scheme: action.scheme || "HTTP" };
}
