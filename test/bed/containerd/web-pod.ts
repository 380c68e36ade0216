import {
  CreateContainerRequest,
  CreateContainerResponse,
  PodSandboxStatusRequest,
  PodSandboxStatusResponse,
  RunPodSandboxRequest,
  RunPodSandboxResponse,
  StartContainerRequest,
  StartContainerResponse,
} from "../../../proto/cri/gen/api.ts";
import { webImage } from "../images/images.ts";
import { callCri } from "./cri-call.ts";

export interface WebPod {
  readonly sandboxId: string;
  readonly containerId: string;
  readonly ip: string;
}

/**
 * Runs a web server with bare CRI calls: a sandbox that maps `hostPort` to port 8080, and a container of the web image.
 */
export async function runWebPod(endpoint: string, name: string, hostPort: number): Promise<WebPod> {
  const config = {
    metadata: { name, namespace: "default", uid: name, attempt: 0 },
    logDirectory: "",
    portMappings: [{ containerPort: 8080, hostPort }],
    linux: {},
  };
  const { podSandboxId } = await callCri(
    endpoint,
    "RuntimeService/RunPodSandbox",
    [RunPodSandboxRequest, RunPodSandboxRequest.fromPartial({ config })],
    RunPodSandboxResponse,
  );
  const container = { metadata: { name: "web" }, image: { image: webImage }, linux: {} };
  const { containerId } = await callCri(
    endpoint,
    "RuntimeService/CreateContainer",
    [
      CreateContainerRequest,
      CreateContainerRequest.fromPartial({ podSandboxId, config: container, sandboxConfig: config }),
    ],
    CreateContainerResponse,
  );
  await callCri(
    endpoint,
    "RuntimeService/StartContainer",
    [StartContainerRequest, { containerId }],
    StartContainerResponse,
  );
  const { status } = await callCri(
    endpoint,
    "RuntimeService/PodSandboxStatus",
    [PodSandboxStatusRequest, { podSandboxId, verbose: false }],
    PodSandboxStatusResponse,
  );
  return { sandboxId: podSandboxId, containerId, ip: status?.network?.ip ?? "" };
}
