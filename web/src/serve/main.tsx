import { render } from "preact";
import { WithLanguage } from "../components/Shell";
import "../styles/base.css";
import "../styles/components.css";
import "./serve.css";
import { App } from "./App";

const page = document.getElementById("page");
if (page) {
  render(
    <WithLanguage>
      <App />
    </WithLanguage>,
    page,
  );
}
