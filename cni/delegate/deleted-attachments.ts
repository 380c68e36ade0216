import type { Attachment } from "../chain.ts";

/**
 * The attachments that this process has deleted. Runtimes call DEL when a sandbox is stopped, and again when it is removed: the
 * second call has nothing to delete.
 */
export interface DeletedAttachments {
  has(attachment: AttachmentName): boolean;
  /** Remembers the newest thousand: a second DEL of an older one is executed again. */
  add(attachment: AttachmentName): void;
  /** To be called before ADD, which makes what the next DEL has to delete. */
  remove(attachment: AttachmentName): void;
}

/** Without the network: the runtime does not know the chain. */
type AttachmentName = Pick<Attachment, "containerId" | "ifName">;

const MAX_REMEMBERED = 1000;

export function createDeletedAttachments(): DeletedAttachments {
  // A set iterates in the order of its insertions.
  const names = new Set<string>();
  return {
    has: (attachment) => names.has(nameOf(attachment)),
    add(attachment) {
      names.add(nameOf(attachment));
      const [oldest] = names;
      if (names.size > MAX_REMEMBERED && oldest !== undefined) names.delete(oldest);
    },
    remove: (attachment) => void names.delete(nameOf(attachment)),
  };
}

const nameOf = ({ containerId, ifName }: AttachmentName) => `${containerId}/${ifName}`;
