"""The words of the spec language: documented functions whose signatures are the schema.

draws        `given: draw:`   a problem to the values that may be drawn, simplest first
transforms   `runs:`          a posed problem to another
observables  `observe:`       what is looked at when a subject answers
relations    `then:`          what must be true of what was seen
"""
