import type { AddressInfo, Server } from "node:net";

/** Resolves with the port. Rejects if the address cannot be listened on. `onError` gets what fails later. */
export function listenOn(
  server: Server,
  { port, address }: { readonly port: number; readonly address: string },
  onError: (error: Error) => void,
): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host: address }, () => {
      server.off("error", reject);
      server.on("error", onError);
      resolve((server.address() as AddressInfo).port);
    });
  });
}
