import { checkSubdomain } from "../../proto/kubernetes/validation/names.ts";
import { shorten } from "../../proto/yaml/value-node.ts";
import type { Problem } from "./problem.ts";

const allowed =
  "an RFC 1123 subdomain such as node-1.example.org: letters, digits, - and ., each part beginning and ending with a letter or digit, at most 253 bytes";

/**
 * The node's name: what `--hostname-override` says, else the machine's own name, trimmed and in lower case. Every static pod is called
 * after its node, so a name that no object of Kubernetes may have is a problem of the start, not of each manifest.
 */
export function nodeNameOf(
  override: string,
  hostname: string,
): { readonly nodeName: string; readonly problems: readonly Problem[] } {
  const found = override === "" ? hostname : override;
  const nodeName = found.trim().toLowerCase();
  if (nodeName === "") return { nodeName, problems: [nameless] };
  if (checkSubdomain("", nodeName).length === 0) return { nodeName, problems: [] };
  const message = `found ${shorten(JSON.stringify(found))}, must be ${allowed}`;
  const problem =
    override === ""
      ? {
          where: "this machine's hostname",
          field: "",
          message: `${message}; --hostname-override gives the node another`,
        }
      : { where: "--hostname-override", field: "", message };
  return { nodeName, problems: [problem] };
}

const nameless: Problem = {
  where: "--hostname-override",
  field: "",
  message: "the node has no name, must be given since the machine has none",
};
