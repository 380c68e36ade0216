import type { ApiServerAnswer } from "./api-server-facts.ts";
import { type Finding, type Judge, judged, okFinding, problemFinding, warningFinding } from "./finding.ts";
import { SYNC_TIME } from "./kernel-findings.ts";

/** Whether the API server of the kubeconfig answers, and whether its clock agrees with this machine's. */
export const judgeApiServer: Judge = (facts, { config: { clusterConfigSource, node } }) => {
  if (clusterConfigSource?.kind !== "kubeconfig") return [];
  const subject = { check: "api-server", subject: `the cluster of ${clusterConfigSource.path}` } as const;
  return judged(facts, "apiServer", subject, (answer) =>
    answer === undefined ? [] : [judgeAnswer(answer, node.nodeLeaseDurationSeconds)],
  );
};

const SERVER_ERROR = 500;
/** The Date header has whole seconds, and the answer takes a while. */
const CLOCK_WARNING_SECONDS = 5;

function judgeAnswer(answer: ApiServerAnswer, leaseSeconds: number): Finding {
  const { server } = answer;
  if (!answer.isReachable)
    return problemFinding(
      "api-server",
      `the API server ${server} does not answer: ${answer.message}`,
      `check that it runs, that server and certificate-authority of the kubeconfig are right, and that no firewall lies in between: curl -k https://${server}/healthz`,
    );
  const { status, clockAheadMs } = answer;
  if (status >= SERVER_ERROR)
    return warningFinding(
      "api-server",
      `the API server ${server} is not healthy: it answers with HTTP ${status}`,
      "wait until it is ready, and read its log",
    );
  if (clockAheadMs === undefined)
    return okFinding("api-server", `${server} answers, and does not say what its clock shows`);
  const seconds = Math.round(Math.abs(clockAheadMs) / 1000);
  const found = `${server} answers; the clock of this machine is ${seconds} s ${clockAheadMs > 0 ? "ahead of" : "behind"} the API server's`;
  if (seconds > leaseSeconds)
    return problemFinding(
      "api-server",
      `${found}, more than the node's lease lasts (${leaseSeconds} s): certificates and leases fail with such a difference`,
      SYNC_TIME,
    );
  if (seconds > CLOCK_WARNING_SECONDS)
    return warningFinding("api-server", `${found}: certificates and leases fail when it grows`, SYNC_TIME);
  return okFinding("api-server", `${server} answers, and its clock agrees with this machine's`);
}
