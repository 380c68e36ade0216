import { FilesError } from "../../../host/fs/files.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import { mountError } from "../../translate/volumes/mount-error.ts";

/**
 * Returns a function that rethrows a failed call on the disk or on a mount in the kubelet's words, with the volume's own
 * name. Any other error stays as it is.
 */
export function rethrowMountError(name: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof FilesError)) throw error;
    const { reason, message } = mountError({ name }, error.message);
    throw new TranslateError(reason, message, { cause: error });
  };
}
