import { containerdContract, containerdUserNamespaceContract } from "./runtime-containerd.ts";

containerdContract("2.1");
containerdUserNamespaceContract();
