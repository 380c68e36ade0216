import { containerdContract, containerdUserNamespaceContract, criEventsContract } from "./runtime-containerd.ts";

containerdContract("2.1");
criEventsContract("2.1");
containerdUserNamespaceContract("2.1");
