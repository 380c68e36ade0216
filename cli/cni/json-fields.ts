import type { AttachmentKey } from "../../cni/cache-entry.ts";
import type { NetworkConf } from "../../cni/conf.ts";

/** A network as JSON for programs. */
export const networkFields = ({ name, cniVersion, plugins }: NetworkConf) => ({
  name,
  cniVersion,
  plugins: plugins.map(({ type }) => type),
});

/** An attachment as JSON for programs. */
export const attachmentFields = ({ network, containerId, ifName }: AttachmentKey) => ({
  network,
  containerId,
  ifName,
});
