import { containerdContract, containerdUserNamespaceContract, criEventsContract } from "../runtime-containerd.ts";

containerdContract("2.0");
criEventsContract("2.0");
containerdUserNamespaceContract("2.0");
