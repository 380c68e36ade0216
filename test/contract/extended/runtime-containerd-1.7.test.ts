import { containerdContract, criEventsContract } from "../runtime-containerd.ts";

containerdContract("1.7");
criEventsContract("1.7");
