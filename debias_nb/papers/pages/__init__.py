"Tables, figures, claims and pages, made of records."
