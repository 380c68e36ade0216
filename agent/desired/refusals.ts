import type { Log } from "../../host/log.ts";
import type { StaticPodSource } from "../../proto/kubernetes/static-pod.ts";
import type { Refusal } from "../decide/node/local-node-report.ts";
import { fullNameOf } from "../decide/pod/desired.ts";
import type { ForeignClaim } from "../decide/sources/merge-static.ts";
import { placeOf } from "./static/source-location.ts";

/** What is asked for and not taken, by all sources. */
export interface Refusals {
  /** All that one source refuses now, of which it has told the log itself. */
  ofSource(kind: StaticPodSource["kind"], refused: readonly Refusal[]): void;
  /** All claims that there are now on another source's pods; the log is told of each once, for as long as it lasts. */
  ofClaims(claims: readonly ForeignClaim[]): void;
}

/** `changed` is called with all that is refused, after each change. */
export function createRefusals(log: Log, changed: (refused: readonly Refusal[]) => void): Refusals {
  const bySource = new Map<StaticPodSource["kind"], readonly Refusal[]>();
  let told: ReadonlySet<string> = new Set();
  let claimed: readonly Refusal[] = [];

  const tell = () => changed([...bySource.values(), claimed].flat());

  return {
    ofSource(kind, refused) {
      bySource.set(kind, refused);
      tell();
    },
    ofClaims(claims) {
      const before = told;
      told = new Set(claims.map(sentenceOf));
      for (const claim of claims) {
        const { pod, source } = claim.offer;
        const place = { [source.kind === "file" ? "file" : "url"]: placeOf(source) };
        const fields = { pod: fullNameOf(pod), uid: pod.metadata.uid, ...place };
        if (!before.has(sentenceOf(claim))) log.error(fields, sentenceOf(claim));
      }
      claimed = claims.map((claim) => ({ file: placeOf(claim.offer.source), problem: problemOf(claim) }));
      tell();
    },
  };
}

function sentenceOf(claim: ForeignClaim): string {
  const { pod, source } = claim.offer;
  const what = source.kind === "file" ? "manifest" : `static pod ${fullNameOf(pod)} from the URL`;
  return `${what} refused: ${problemOf(claim)}`;
}

function problemOf({ offer, owner }: ForeignClaim): string {
  return `pod uid ${offer.pod.metadata.uid} is already defined by ${placeOf(owner)}`;
}
