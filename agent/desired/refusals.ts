import type { Log } from "../../host/log.ts";
import { fullNameOf } from "../decide/desired.ts";
import type { ForeignClaim } from "../decide/merge.ts";
import { placeOf } from "./place.ts";

/** Tells each claim on another source's pod once, for as long as it lasts. Takes all that there are now. */
export function createRefusals(log: Log): (claims: readonly ForeignClaim[]) => void {
  let told: ReadonlySet<string> = new Set();
  return (claims) => {
    const before = told;
    told = new Set(claims.map(sentenceOf));
    for (const claim of claims) {
      const { pod, source } = claim.offer;
      const place = { [source.kind === "file" ? "file" : "url"]: placeOf(source) };
      const fields = { pod: fullNameOf(pod), uid: pod.metadata.uid, ...place };
      if (!before.has(sentenceOf(claim))) log.error(fields, sentenceOf(claim));
    }
  };
}

function sentenceOf({ offer: { pod, source }, owner }: ForeignClaim): string {
  const what = source.kind === "file" ? "manifest" : `static pod ${fullNameOf(pod)} from the URL`;
  return `${what} refused: pod uid ${pod.metadata.uid} is already defined by ${placeOf(owner)}`;
}
