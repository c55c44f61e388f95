/** The page of a shared file: the same as the server's, with the answers embedded. */
import { mount } from "svelte";
import App from "../App.svelte";
import { answerWith } from "../api/client";
import { router } from "../router.svelte";
import "../theme.css";
import { Embedded } from "./embedded";
import { EMBEDDED } from "./offline_mode";

const data = document.getElementById(EMBEDDED);
const target = document.getElementById("app");
if (!data || !target) throw new Error("This file is not whole: ask for it again.");
const embedded = new Embedded(data.textContent ?? "");
answerWith((path, init) => embedded.answer(path, init));
if (router.route.page !== "comparison") router.go({ page: "comparison", id: embedded.comparison, row: null }, { replace: true });
mount(App, { target });
