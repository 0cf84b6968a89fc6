"""What Croissant's vocabulary for responsible AI asks of a data set, as far as it is true of every study."""

from typing import Any

from parley.export.about import About


def responsible(known: About) -> dict[str, Any]:
    """Return the RAI properties of Croissant: collection, gaps, biases, limits, uses, people, social impact."""
    versions = ", ".join(f"{name} {version}" for name, version in known.software.items() if version)
    players = ", ".join(known.players)
    notes = [f"{name}: {note}" for name, (_, note) in known.models.items() if note]
    elsewhere = [f"{each['source']} (license: {each['license']})" for each in known.sources]
    left_out = f"{known.left_out} damaged records are left out. " if known.left_out else ""
    return {
        "data_collection": (
            f"Imported, not played by Parley: {'; '.join(elsewhere)}. Outcomes were computed again from the replies "
            "by the rules of the game."
            if elsewhere
            else "Simulated games. Parley sends each agent the messages of a prompt template, records every reply, "
            f"and computes outcomes by the rules of the game. What played: {players}. Versions: {versions}."
        ),
        "data_collection_type": ["Secondary Data Analysis"] if elsewhere else ["Experiments", "Software Collection"],
        "data_collection_timeframe": [known.started, known.ended],
        "data_collection_missing_data": f"{left_out}What is undefined or was not counted is null, never zero.",
        "data_collection_raw_data": "The replies, word for word: record set `replies`.",
        "data_preprocessing_protocol": [
            "Replies are read by fixed rules; one that cannot be read is a recorded failure, never a guess.",
            "Texts in `turns` are cleaned and stand on one line; those in `replies` are as they came.",
        ],
        "data_annotation_protocol": ["No person labeled anything: outcomes and metrics follow from the rules."],
        "data_biases": [
            "Replies carry the biases of the models that wrote them and of their training data.",
            "Prompts are in one wording each. Wording and reply format change what models answer.",
            "Conditions are those that the author chose; they are no sample of models, groups or situations.",
        ],
        "data_limitations": [
            "Results hold for these models, prompts, versions and sampling settings; others may reply otherwise.",
            "The unit of statistics is the simulation. Conditions of a study share seeds; replies of one game are not "
            "independent.",
            "Agents are programs: nothing here is evidence about people.",
            *notes,
        ],
        "data_use_cases": [
            "Studying agreement, and what breaks it, in groups of LLM agents.",
            "Not for training models to deceive, nor for judging people.",
        ],
        "data_social_impact": (
            "Shows how adversarial agents can stop or mislead a group of agents. That helps to defend such systems, "
            "and could help to attack them."
        ),
        "personal_sensitive_information": [
            "Nobody took part in the games"
            + (" as far as Parley knows" if elsewhere else "")
            + ", and nothing says who ran them or on which machine. Replies were not screened: a model may repeat "
            "personal data of its training, and prompts hold what the author put into them."
        ],
    }
