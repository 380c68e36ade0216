import type { AddressInfo, Server } from "node:net";

/** All addresses of IPv4. */
const ANY_IPV4 = "0.0.0.0";
/** All addresses of both families. */
const ANY = "::";
/** Where the kernel has no IPv6. */
const NO_IPV6: readonly unknown[] = ["EAFNOSUPPORT", "EADDRNOTAVAIL"];

/**
 * Resolves with the port. Rejects if the address cannot be listened on. `onError` gets what fails later. As in Go, and so in the
 * kubelet, `0.0.0.0` means all addresses of both families: it is the default of KubeletConfiguration, on nodes with IPv6, too.
 */
export async function listenOn(
  server: Server,
  { port, address }: { readonly port: number; readonly address: string },
  onError: (error: Error) => void,
): Promise<number> {
  if (address !== ANY_IPV4) await listen(server, port, address);
  else
    await listen(server, port, ANY).catch(async (error: NodeJS.ErrnoException) => {
      if (!NO_IPV6.includes(error.code)) throw error;
      await listen(server, port, ANY_IPV4);
    });
  server.on("error", onError);
  return (server.address() as AddressInfo).port;
}

async function listen(server: Server, port: number, host: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.once("listening", resolve);
  try {
    server.listen({ port, host });
    await promise;
  } finally {
    server.off("error", reject);
    server.off("listening", resolve);
  }
}
