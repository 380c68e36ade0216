import { setTimeout as pause } from "node:timers/promises";
import { nodeUser } from "../../upstream/control-plane.ts";
import { startHttp2Gateway } from "../../upstream/http2-gateway.ts";
import { connectApi } from "../cluster/api-client.ts";
import type { ClusterBenchOptions } from "../cluster/cluster-bench.ts";
import { type ClusterSubjects, deletePods, SIGNAL_HANDLER_SETUP_MS, startPods } from "../cluster/cluster-rounds.ts";
import { type ComparedNode, type ComparedNodeOptions, createBerthNode, nodeNameFor } from "../cluster/compared-node.ts";
import { createReadRecorder, type PodReads, podReadsOf } from "./object-reads.ts";
import { objectPaths, podWithObjects } from "./volume-pods.ts";

type Subjects = Pick<ClusterSubjects, "api" | "watch" | "names">;

/**
 * Measures how Berth reads the objects of a pod when no other pod on the node uses them, `turns` times. The node has its
 * connection to the API server through a gateway, which notes the times, and which plain reads of the same objects pass
 * as well.
 */
export async function measureReads(
  subjects: Subjects,
  options: Pick<ClusterBenchOptions, "binary" | "interruption"> &
    Pick<ComparedNodeOptions, "plane" | "folder" | "version">,
  { prefix, turns }: { readonly prefix: string; readonly turns: number },
): Promise<readonly PodReads[]> {
  const { plane, binary, version, interruption } = options;
  const { ca, authority } = plane;
  const recorder = createReadRecorder(() => performance.now());
  const gateway = await startHttp2Gateway({
    target: plane.server,
    ca,
    certificate: authority.issue({ commonName: "gateway", hosts: ["127.0.0.1"] }),
    identity: authority.issue(nodeUser(nodeNameFor("berth", version))),
    onData: recorder.onData,
  });
  const server = `https://127.0.0.1:${gateway.port}`;
  const plain = connectApi({ server, ca, authority });
  const measurePod = async (member: ComparedNode): Promise<PodReads> => {
    const names = subjects.names(1);
    await startPods(subjects, member, names, podWithObjects(prefix));
    const paths = objectPaths(prefix);
    await Promise.all(paths.map((path) => plain.get(path)));
    const reads = podReadsOf(recorder.take(), paths.length);
    await pause(SIGNAL_HANDLER_SETUP_MS);
    await deletePods(subjects, names);
    return reads;
  };
  try {
    const member = await createBerthNode({ ...options, server }, binary);
    try {
      await member.start();
      const reads: PodReads[] = [];
      const measureAll = async () => {
        // The first turn is a warm-up.
        for (let turn = 0; turn <= turns; turn++) reads.push(await measurePod(member));
      };
      await Promise.race([measureAll(), interruption]);
      return reads.slice(1);
    } finally {
      await member.end();
    }
  } finally {
    plain.close();
    await gateway.close();
  }
}
