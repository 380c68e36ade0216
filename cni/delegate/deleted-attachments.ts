import type { Attachment } from "../chain.ts";

/** Says which attachments this process has deleted: runtimes call DEL when a sandbox is stopped, and again when it is removed. */
export interface DeletedAttachments {
  has(attachment: AttachmentName): boolean;
  /** Keeps the newest thousand: DEL of an older one is executed again. */
  add(attachment: AttachmentName): void;
  /** Another ADD may make something that has to be deleted. */
  remove(attachment: AttachmentName): void;
}

type AttachmentName = Pick<Attachment, "containerId" | "ifName">;

const MAX_KEPT = 1000;

export function createDeletedAttachments(): DeletedAttachments {
  // A set iterates in the order of its insertions.
  const names = new Set<string>();
  return {
    has: (attachment) => names.has(nameOf(attachment)),
    add(attachment) {
      names.add(nameOf(attachment));
      const [oldest] = names;
      if (names.size > MAX_KEPT && oldest !== undefined) names.delete(oldest);
    },
    remove: (attachment) => void names.delete(nameOf(attachment)),
  };
}

const nameOf = ({ containerId, ifName }: AttachmentName) => `${containerId}/${ifName}`;
